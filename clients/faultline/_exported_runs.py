"""A run whose pictures can be exported as a set that other tools read."""

from __future__ import annotations

from pathlib import Path

from faultline._exports import ExportLayout, check_export, unpacked
from faultline._run_calls import AnyItem, Params, Summary
from faultline._runs import AsyncRunHandle, RunHandle


class ExportedRun(RunHandle[AnyItem, Summary]):
    """Such a run, followed by blocking calls."""

    def export(
        self, folder: str | Path, *, layout: ExportLayout = "imagefolder", dropped: bool = False
    ) -> Path:
        """Write the pictures that were kept into the new ``folder``, with provenance and a dataset card.

        Each that was made here says that it is synthetic, beside its pixels. ``dropped`` adds those that a
        filter dropped. The folder is there as a whole or not at all.

        Raises:
            InvalidRequest: the folder holds something already, or cannot be written.
            DatasetEmpty: no picture was kept.
        """
        return self._exported(folder, layout, dropped=dropped)

    def _exported(self, folder: str | Path, layout: ExportLayout, **wanted: bool) -> Path:
        target = Path(folder)
        check_export(layout, target)
        call = self._calls.export(self.id, _asked(layout, wanted))
        with unpacked(target) as archive, self._sender.stream(call) as response:
            for data in response.iter_bytes():
                archive.write(data)
        return target


class AsyncExportedRun(AsyncRunHandle[AnyItem, Summary]):
    """Such a run, followed by awaitable calls."""

    async def export(
        self, folder: str | Path, *, layout: ExportLayout = "imagefolder", dropped: bool = False
    ) -> Path:
        """Write the pictures that were kept into the new ``folder``; as `ExportedRun.export`."""
        return await self._exported(folder, layout, dropped=dropped)

    async def _exported(self, folder: str | Path, layout: ExportLayout, **wanted: bool) -> Path:
        target = Path(folder)
        check_export(layout, target)
        call = self._calls.export(self.id, _asked(layout, wanted))
        with unpacked(target) as archive:
            async with self._sender.stream(call) as response:
                async for data in response.aiter_bytes():
                    archive.write(data)
        return target


def _asked(layout: ExportLayout, wanted: dict[str, bool]) -> Params:
    return {"layout": layout} | {name: "true" for name, asked in wanted.items() if asked}
