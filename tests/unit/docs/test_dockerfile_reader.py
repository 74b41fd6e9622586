"""`make images` reads the Dockerfile as Docker does."""

from __future__ import annotations

from pathlib import Path

from images.dockerfile import chain, read_stages

TEXT = """# a comment
FROM python AS base
ENV ONE=1 TWO=2

FROM base AS program
RUN first && \\
    second
COPY --from=base /a /b
ENV TWO=3
ENTRYPOINT ["program"]
CMD ["serve", "now"]
"""


def test_stages_have_their_bases_variables_and_words(tmp_path: Path) -> None:
    (file := tmp_path / "Dockerfile").write_text(TEXT, encoding="utf-8")
    stages = read_stages(file)
    assert [stage.name for stage in chain(stages, "program")] == ["base", "program"]
    program = stages["program"]
    assert program.all_of("RUN") == ["first && second"]
    assert program.all_of("COPY") == ["--from=base /a /b"]
    assert stages["base"].variables | program.variables == {"ONE": "1", "TWO": "3"}
    assert [*program.words("ENTRYPOINT"), *program.words("CMD")] == ["program", "serve", "now"]
    assert stages["base"].words("CMD") == []
