"""Diffusion editing on tensors: one published method a module, any model behind the `Denoiser` protocol.

| module | method |
| --- | --- |
| `ddim`, `noise_schedule` | deterministic sampling and its inverse (Song et al. 2021) |
| `null_text` | null-text inversion (Mokady et al. 2022), batched over images |
| `negative_prompt` | negative-prompt inversion (Miyake et al. 2023) |
| `direct_inversion` | direct inversion (Ju et al. 2023) |
| `attention_control`, `prompt_alignment` | prompt-to-prompt: replace, refine, re-weight (Hertz et al. 2022) |
| `local_blend` | edits confined to where their words look |
| `edit`, `branches` | the loop of images x edits x sweep values, the sweep as a tree |
| `null_text_edit` | inversion and edits in one walk |
| `generate` | text-to-image |
| `evaluation`, `driver`, `joined_call` | trajectories as generators, and what joins their calls |
"""
