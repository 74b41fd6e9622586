"""Runs whose images can be exported as a dataset that other tools read."""

from __future__ import annotations

from pathlib import Path

from counterpose._exports import ExportLayout, check_export, unpacked
from counterpose._run_calls import AnyItem, Params, Summary
from counterpose._runs import AsyncRunHandle, RunHandle


class ExportedRun(RunHandle[AnyItem, Summary]):
    """A run with exportable images, followed by blocking calls."""

    def export(
        self, folder: str | Path, *, layout: ExportLayout = "imagefolder", dropped: bool = False
    ) -> Path:
        """Write the kept images to a new ``folder``, with provenance and a dataset card.

        Every generated image is marked as synthetic in its metadata. The folder is written completely or not
        at all.

        Args:
            folder: created; it must not exist, or be empty.
            layout: how the images and their metadata are stored.
            dropped: also export images that a filter dropped.

        Raises:
            InvalidRequest: the folder is not empty, or cannot be written.
            DatasetEmpty: no image was kept.
        """
        return self._exported(folder, layout, dropped=dropped)

    def _exported(
        self, folder: str | Path, layout: ExportLayout, view: Params | None = None, **wanted: bool
    ) -> Path:
        target = Path(folder)
        check_export(layout, target)
        call = self._calls.export(self.id, _asked(layout, wanted, view))
        with unpacked(target) as archive, self._sender.stream(call) as response:
            for data in response.iter_bytes():
                archive.write(data)
        return target


class AsyncExportedRun(AsyncRunHandle[AnyItem, Summary]):
    """A run with exportable images, followed by awaitable calls."""

    async def export(
        self, folder: str | Path, *, layout: ExportLayout = "imagefolder", dropped: bool = False
    ) -> Path:
        """Write the kept images to a new ``folder``; as `ExportedRun.export`."""
        return await self._exported(folder, layout, dropped=dropped)

    async def _exported(
        self, folder: str | Path, layout: ExportLayout, view: Params | None = None, **wanted: bool
    ) -> Path:
        target = Path(folder)
        check_export(layout, target)
        call = self._calls.export(self.id, _asked(layout, wanted, view))
        with unpacked(target) as archive:
            async with self._sender.stream(call) as response:
                async for data in response.aiter_bytes():
                    archive.write(data)
        return target


def _asked(layout: ExportLayout, wanted: dict[str, bool], view: Params | None) -> Params:
    chosen = {name: "true" for name, asked in wanted.items() if asked}
    return {"layout": layout, **chosen, **(view or {})}
