"""Hooks of mkdocs: the Markdown files outside ``docs/``, and links between files.

A link to a Markdown file, or to a directory with a README.md, leads to its page of the site.
Pictures are copied. Other links, to code, become text, since the site has no copy of the code.
"""

import re
from pathlib import Path
from posixpath import relpath

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent
# The pages of the site that are not in docs/, by their files.
PAGES = {
    "README.md": "front_page.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    **{
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT).as_posix()
        for folder in ("benchmarks", "examples")
        for path in ROOT.glob(f"{folder}/**/*.md")
    },
}
SOURCES = {page: source for source, page in PAGES.items()}
# A block or a span of code, which stays as it is, or a link.
LINK = re.compile(
    r"(?ms)^ *```.*?^ *```$|(?P<picture>!?)\[(?P<text>(?:[^][`]|`[^`\n]*`)*)\]"
    r"\((?P<target>[^)\s]+)\)|`[^`\n]*`"
)
# A name in a docstring, in the notation of Sphinx.
ROLE = re.compile(r":(?:class|data|func|meth|mod):<code>(?:~[\w.]*\.(?=\w)|~?\.*)([^<]+)</code>")


def on_files(files, config):
    for source, page in PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown, page, config, files):
    source = ROOT / SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def adapted(match):
        target = match["target"]
        if target is None or re.match(r"#|\w+:", target):
            return match[0]
        path, _, anchor = target.partition("#")
        file = (source.parent / path).resolve()
        if (file / "README.md").exists():
            file /= "README.md"
        if not file.exists():
            return match[0]  # mkdocs reports it
        name = file.relative_to(ROOT).as_posix()
        linked = PAGES.get(name, name.removeprefix("docs/"))
        if match["picture"] and files.get_file_from_path(linked) is None:
            files.append(File.generated(config, linked, abs_src_path=str(file)))
        elif file.suffix != ".md" and not match["picture"]:
            return match["text"]
        link = relpath(linked, Path(page.file.src_uri).parent.as_posix())
        return f"{match['picture']}[{match['text']}]({link}{anchor and '#'}{anchor})"

    return LINK.sub(adapted, markdown)


def on_page_content(html, page, config, files):
    return ROLE.sub(r"<code>\1</code>", html)
