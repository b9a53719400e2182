"""What CI runs: ``nox -l`` lists the sessions, and ``nox -s lint`` runs one."""

import shutil
from pathlib import Path

import nox

ROOT = Path(__file__).resolve().parent
PYTHONS = ["3.10", "3.11", "3.12"]
DEV = nox.project.load_toml(ROOT / "pyproject.toml")["project"]["optional-dependencies"]["dev"]

nox.options.sessions = ["lint", "types", "docs", "tests"]  # without -s
nox.options.reuse_existing_virtualenvs = True
# The pip that Python 3.10 brings installs fairseq 0.12.2; pip 24.1 and later refuse the metadata of
# its omegaconf.
nox.options.default_venv_backend = "venv"


@nox.session(python=PYTHONS)
def tests(session):
    """Run the tests with the newest torch."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-q", "-m", "not sanitizers", *session.posargs)


@nox.session(python="3.10")
@nox.parametrize("torch", ["2.4", "2.15"])
def oldest(session, torch):
    """Run the tests with the oldest and the newest torch on the oldest Python."""
    session.install("-e", ".[dev]", f"torch=={torch}.*")
    session.run("pytest", "-q", "-m", "not sanitizers", *session.posargs)


@nox.session(python="3.11")
def without_compiler(session):
    """Run the tests in a copy of the repository in which nothing is compiled."""
    copy = Path(session.create_tmp()) / "fairseq_fastdec"
    shutil.rmtree(copy, ignore_errors=True)
    leave_out = shutil.ignore_patterns("*.so", ".git", ".nox", ".venv", "build", "work")
    shutil.copytree(ROOT, copy, ignore=leave_out)
    session.chdir(copy)
    session.install("-e", ".[dev]", env={"CC": "false", "CXX": "false"})
    session.run("pytest", "-q", "-m", "not sanitizers", *session.posargs)


@nox.session(python="3.11")
def lint(session):
    """Check style and format."""
    session.install(*(requirement for requirement in DEV if requirement.startswith("ruff")))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session(python="3.11")
def types(session):
    """Check types."""
    session.install("-e", ".[dev]")
    session.run("mypy")


@nox.session(python="3.11")
def docs(session):
    """Build the site of the documents in build/site; a broken link is an error."""
    session.install(*(requirement for requirement in DEV if requirement.startswith("mkdocs")))
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(python="3.11")
def sanitizers(session):
    """Test the compiled code with GCC's sanitizers, those of memory and that of threads."""
    session.install("-e", ".[dev]")
    session.run("python", "scripts/sanitize.py")
    session.run("python", "scripts/sanitize.py", "--threads")


@nox.session(python="3.11")
def coverage(session):
    """Measure which lines and branches of the package the tests run."""
    session.install("-e", ".[dev]", "pytest-cov")
    # pytest-cov has to find the number of processes on the command line.
    options = ["-q", "-p", "pytest_cov", "-n", "auto", "-m", "not sanitizers", "--cov"]
    session.run("pytest", *options, *session.posargs)
