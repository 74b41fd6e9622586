"""Diffusion editing on tensors: published methods, and any model behind the `Denoiser` protocol.

| module | method |
| --- | --- |
| `solvers/ddim`, `noise_schedule` | deterministic sampling and its inverse (Song et al. 2021) |
| `solvers/solver` | steps of an edit: DDIM, DPM-Solver++ 2M (Lu et al. 2022), consistent (Xu et al. 2023) |
| `inversion/null_text` | null-text inversion (Mokady et al. 2022), batched over images |
| `inversion/tuning_free` | direct inversion (Ju et al. 2023), which optimises nothing |
| | negative-prompt inversion (Miyake et al. 2023) |
| | virtual inversion (Xu et al. 2023) |
| `attention_control`, `prompt_alignment` | prompt-to-prompt: replace, refine, re-weight (Hertz et al. 2022) |
| `local_blend` | edits confined to the region of the changed words |
| `edit`, `branches` | edits of images x captions x sweep values, the sweep as a tree |
| `generate` | text-to-image: DDIM, consistency models (Luo et al. 2023), step schedulers |
| `textual_inversion` | class tokens (Gal et al. 2022) |
| `driver/` | trajectories as generators, and the driver that joins their network calls |
"""
