from __future__ import annotations

from pathlib import Path

import pytest

from annulet.demo.workspace import PLOTS, Workspace, WorkspaceError


def test_without_keep_only_the_plots_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with Workspace.open(None) as workspace:
        workspace.broker.mkdir()
        assert workspace.checkpoints.is_dir()

    assert not workspace.root.exists()
    assert workspace.plots.resolve() == (tmp_path / PLOTS)
    assert workspace.plots.is_dir()


def test_keep_keeps_everything(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "new" / "folder") as workspace:
        workspace.broker.mkdir()

    assert (tmp_path / "new" / "folder" / "broker").is_dir()
    assert (tmp_path / "new" / "folder" / "plots").is_dir()


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(WorkspaceError, match="the folder is not empty"):
        Workspace.open(tmp_path)


def test_a_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()

    with pytest.raises(WorkspaceError, match=rf"{path}: File exists"):
        Workspace.open(path)
