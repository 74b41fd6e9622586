"""The miniature world: scenes, their images and their captions, all deterministic."""

from counterpose_miniature.world.grammar import caption, parse
from counterpose_miniature.world.renderer import object_mask, render
from counterpose_miniature.world.sampling import DATASET, GENERATOR, UNIFORM, Distribution, sample_scene
from counterpose_miniature.world.scene import ATTRIBUTES, VALUES, WITHHELD, Scene, is_withheld
from counterpose_miniature.world.seeds import SeedRange, scene_for

__all__ = [
    "ATTRIBUTES",
    "DATASET",
    "GENERATOR",
    "UNIFORM",
    "VALUES",
    "WITHHELD",
    "Distribution",
    "Scene",
    "SeedRange",
    "caption",
    "is_withheld",
    "object_mask",
    "parse",
    "render",
    "sample_scene",
    "scene_for",
]
