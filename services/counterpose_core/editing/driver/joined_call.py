"""One denoiser call for parts of several evaluations: sources first, then plain rows, then targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from counterpose_core.editing.attention_control import CrossEdit, PromptToPrompt
from counterpose_core.editing.denoiser import Denoiser, read_on_host
from counterpose_core.editing.driver.evaluation import Answer, Carry, Evaluation, Objective, Owner, WordMaps
from counterpose_core.errors import AttentionNotHooked


@dataclass(frozen=True)
class Piece:
    """Rows ``start`` to ``stop`` of an evaluation, with its source if attention is carried.

    A piece that does not begin with the first target evaluates again a source that another call evaluates
    too.
    """

    evaluation: Evaluation
    start: int
    stop: int

    @property
    def carried(self) -> bool:
        """Whether attention is carried to its rows from a source."""
        return self.evaluation.carry is not None

    @property
    def repeats(self) -> bool:
        """Whether another call evaluates its source too."""
        return self.carried and self.start > 1

    @property
    def size(self) -> int:
        """Number of rows in the call."""
        return self.stop - self.start + self.carried

    @property
    def payers(self) -> list[Owner]:
        """The owner of each row; a repeated source is paid by the first target of the piece."""
        owners = list(self.evaluation.owners[self.start : self.stop])
        if not self.carried:
            return owners
        return [owners[0] if self.repeats else self.evaluation.owners[0], *owners]


class JoinedCall:
    """Pieces that share one call; either all or none of them have an objective.

    ``row_map_bytes`` is the size of the attention maps of each row with carried attention, ``host_syncs`` the
    number of times that the call waited for the device.
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self.row_map_bytes = self.host_syncs = 0
        numbered = list(enumerate(pieces))
        # The layout that PromptToPrompt expects.
        heads = [(number, 0, 1) for number, piece in numbered if piece.carried]
        plain = [(number, piece.start, piece.stop) for number, piece in numbered if not piece.carried]
        tails = [(number, piece.start, piece.stop) for number, piece in numbered if piece.carried]
        self._segments = [*heads, *plain, *tails]
        self._sizes = [stop - start for _, start, stop in self._segments]
        self._latents = self._gathered([piece.evaluation.latents for piece in pieces])
        self._text = self._gathered([piece.evaluation.text for piece in pieces])
        timesteps = [piece.evaluation.timestep for piece in pieces]
        whole = all(timestep == int(timestep) for timestep in timesteps)
        self._timesteps = self._each_row(timesteps, torch.int64 if whole else torch.float32)

    def _gathered(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([parts[number][start:stop] for number, start, stop in self._segments])

    def _each_row(self, numbers: Sequence[float], dtype: torch.dtype) -> Tensor:
        """Repeat the number of each piece for its rows in the call."""
        device = self._latents.device
        if len(set(numbers)) == 1:
            return torch.full((sum(self._sizes),), numbers[0], dtype=dtype, device=device)
        spread = [numbers[number] for number, start, stop in self._segments for _ in range(start, stop)]
        return torch.tensor(spread, dtype=dtype, device=device)

    def answers(self, denoiser: Denoiser) -> list[Answer]:
        """Make the call and answer each piece.

        Raises:
            AttentionNotHooked: the denoiser has no attention that could be controlled.
        """
        objectives = [piece.evaluation.objective for piece in self._pieces]
        wanted = [objective for objective in objectives if objective is not None]
        return self._optimised(denoiser, wanted) if wanted else self._evaluated(denoiser)

    def _evaluated(self, denoiser: Denoiser) -> list[Answer]:
        control = self._control()
        output = denoiser(self._latents, self._timesteps, self._text, control)
        self.row_map_bytes = 0 if control is None else control.row_map_bytes
        # A control that is not attached would silently give an unedited image, as hooks by class name did
        # when diffusers renamed its attention class. Therefore, the attention layers it saw are counted.
        if control is not None and 0 in (control.cross_sites, control.self_sites):
            raise AttentionNotHooked(
                f"the control saw {control.cross_sites} cross- and {control.self_sites} self-attention "
                "layers; attach it to those of the denoiser"
            )
        maps = self._word_maps(control)
        return [Answer(part, maps.get(number, ())) for number, part in enumerate(self._taken_apart(output))]

    def _optimised(self, denoiser: Denoiser, objectives: Sequence[Objective]) -> list[Answer]:
        """Evaluate with the gradient of each row's objective in its own text."""
        with torch.enable_grad():
            leaf = self._text.detach().requires_grad_()
            output = denoiser(self._latents, self._timesteps, leaf)
        scales = self._each_row([objective.scale for objective in objectives], output.dtype)
        scale = scales[:, None, None, None]
        residual = scale * output.detach() + self._gathered([objective.offset for objective in objectives])
        # The copy starts before the backward pass is queued and is awaited after it, so the device stays
        # busy.
        values = _HostCopy(residual.square().flatten(1).mean(dim=1))
        # Rows are independent, so one backward pass gives the gradient of each in its own text.
        (gradient,) = torch.autograd.grad(output, leaf, residual * (2 * scale / residual[0].numel()))
        # Without a reader there is no need to wait for the device.
        self.host_syncs = int(any(objective.read for objective in objectives))
        read = values.read(denoiser) if self.host_syncs else ()
        ends = accumulate(self._sizes)
        return [
            Answer(part, (), slope, read[end - len(part) : end])
            for part, slope, end in zip(
                output.detach().split(self._sizes), gradient.split(self._sizes), ends, strict=True
            )
        ]

    def _taken_apart(self, rows: Tensor) -> list[Tensor]:
        """Return the rows of each piece in its order, without a source that another call evaluates too."""
        found: list[list[Tensor]] = [[] for _ in self._pieces]
        for (number, start, _), part in zip(self._segments, rows.split(self._sizes), strict=True):
            if start > 0 or not self._pieces[number].repeats:
                found[number].append(part)
        return [parts[0] if len(parts) == 1 else torch.cat(parts) for parts in found]

    def _carries(self) -> list[tuple[Piece, Carry]]:
        pairs = [(piece, piece.evaluation.carry) for piece in self._pieces]
        return [(piece, carry) for piece, carry in pairs if carry is not None]

    def _control(self) -> PromptToPrompt | None:
        carries = self._carries()
        if not carries:
            return None
        rows = [row for row, (piece, _) in enumerate(carries) for _ in range(piece.size - 1)]
        edits = [
            carry.cross.rows(piece.start - 1, piece.stop - 1)
            for piece, carry in carries
            if carry.cross is not None
        ]
        injected = [
            flag for piece, carry in carries for flag in carry.injected[piece.start - 1 : piece.stop - 1]
        ]
        return PromptToPrompt(
            source_of=torch.tensor(rows, device=self._latents.device),
            sources=len(carries),
            cross=CrossEdit.stack(edits) if edits else None,
            injected=torch.tensor(injected),
            collect=any(carry.collect for _, carry in carries),
        )

    def _word_maps(self, control: PromptToPrompt | None) -> dict[int, tuple[WordMaps]]:
        """Return the word maps of the targets of each piece, if any piece requested them."""
        if control is None or not control.collect:
            return {}
        numbers = [number for number, piece in enumerate(self._pieces) if piece.carried]
        sizes = [self._pieces[number].size - 1 for number in numbers]
        source, target = (maps.split(sizes) for maps in control.word_maps())
        return {
            number: (WordMaps(*maps),)
            for number, maps in zip(numbers, zip(source, target, strict=True), strict=True)
        }


class _HostCopy:
    """Numbers (R,) that are being copied to the host."""

    def __init__(self, values: Tensor) -> None:
        self._values = values.to("cpu", non_blocking=True)
        self._copied: torch.cuda.Event | None = None
        if values.is_cuda:
            self._copied = torch.cuda.Event()
            self._copied.record()

    def read(self, denoiser: Denoiser) -> tuple[float, ...]:
        """Wait for the copy only, not for work that was queued after it."""
        if self._copied is not None:
            self._copied.synchronize()
        return tuple(read_on_host(denoiser, self._values).tolist())
