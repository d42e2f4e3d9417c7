"""An exposition in OpenTelemetry's form."""

from __future__ import annotations

import math

from annulet.admin.telemetry.conversion import metrics_of, resource_of

EXPOSITION = b"""# HELP a_total Counted.
# TYPE a_total counter
a_total{queue="x"} 3
a_total{queue="y"} 4
# HELP b Now.
# TYPE b gauge
b -1.5
# HELP c Times.
# TYPE c histogram
c_bucket{le="0.1"} 2
c_bucket{le="1"} 5
c_bucket{le="+Inf"} 6
c_count 6
c_sum 7.5
"""


def test_families() -> None:
    data = metrics_of(EXPOSITION, resource_of("here"), 1, 2)
    resource = data.resource_metrics[0]
    assert resource.resource.attributes["service.instance.id"] == "here"
    counter, gauge, histogram = resource.scope_metrics[0].metrics
    assert (counter.name, counter.description, counter.data.is_monotonic) == ("a", "Counted.", True)
    points = [(point.attributes, point.value, point.time_unix_nano) for point in counter.data.data_points]
    assert points == [({"queue": "x"}, 3, 2_000_000), ({"queue": "y"}, 4, 2_000_000)]
    assert [point.value for point in gauge.data.data_points] == [-1.5]
    (point,) = histogram.data.data_points
    assert (point.bucket_counts, point.explicit_bounds, point.count, point.sum) == ([2, 3, 1], [0.1, 1], 6, 7.5)
    assert point.max == math.inf
