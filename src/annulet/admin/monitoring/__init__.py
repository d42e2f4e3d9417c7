"""A dashboard of Grafana and alert rules of Prometheus, as files of the package."""
