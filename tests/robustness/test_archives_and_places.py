"""Files that are no tables, archives that are none, places that take no files: one short sentence and exit code 2."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

import fimsde
from fimsde.data.headers import listing
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.files.lock import only_one
from fimsde.files.place import check_place
from fimsde.interface.cli import main

TABLE = ("t,x\n" + "".join(f"{0.1 * i},{(i * 7) % 11}\n" for i in range(60))).encode()


def refused(capsys, *arguments):
    """The one short sentence of a command that ends with exit code 2."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    said = [
        line
        for line in capsys.readouterr().err.splitlines()
        if not line.startswith(("fimsde: warning: ", "fimsde: read as: "))
    ]
    assert stopped.value.code == 2, said
    assert len(said) == 1
    assert len(said[0]) < 500
    return said[0]


def zipped(*members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return packed.getvalue()


def tarred(mode, *members):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def encrypted():
    """A zip that says of itself that its member is encrypted, in both of its headers."""
    content = bytearray(zipped(("a.csv", TABLE)))
    content[6] |= 1
    content[content.find(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


PACKED = {
    ".gz": gzip.compress(TABLE),
    ".bz2": bz2.compress(TABLE),
    ".xz": lzma.compress(TABLE),
    ".zip": zipped(("a.csv", TABLE)),
    ".tar": tarred("w", ("a.csv", TABLE)),
    ".tar.gz": tarred("w:gz", ("a.csv", TABLE)),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_packed_table_had_no_column_called_t(suffix, tmp_path, capsys):
    """The command line looked for the names in the packed bytes."""
    (tmp_path / f"a.csv{suffix}").write_bytes(PACKED[suffix])
    with pytest.raises(SystemExit) as stopped:
        main(["info", str(tmp_path / f"a.csv{suffix}")])
    assert not stopped.value.code
    assert "observations: 60" in capsys.readouterr().out


@pytest.mark.parametrize("suffix", [*PACKED, ".zst"])
def test_an_archive_that_is_none_or_was_cut_short_was_a_foreign_error(suffix, tmp_path, capsys):
    whole = PACKED.get(suffix, b"\x28\xb5\x2f\xfd" + TABLE)
    for content in (TABLE, whole[: min(700, len(whole) // 2)], whole[:9], bytes(range(256)) * 9):
        (tmp_path / f"a.csv{suffix}").write_bytes(content)
        assert "archive" in (err := refused(capsys, "info", tmp_path / f"a.csv{suffix}")) or "packed" in err
        with pytest.raises(InvalidObservationsError):
            fimsde.read(tmp_path / f"a.csv{suffix}", time="t")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("two.zip", zipped(("a.csv", TABLE), ("b.csv", TABLE)), "more files than one, or none"),
        ("none.zip", zipped(), "more files than one, or none"),
        ("two.tar", tarred("w", ("a.csv", TABLE), ("b.csv", TABLE)), "more files than one, or none"),
        ("none.tar", tarred("w"), "more files than one, or none"),
        ("secret.zip", encrypted(), "is an encrypted archive. Unpack it first"),
        ("nothing.zip", zipped(("a.csv", b"")), "is empty"),
        ("zeros.csv", bytes(4000), "bytes that are no text"),
    ],
)
def test_an_archive_with_other_things_in_it_is_named(name, content, words, tmp_path, capsys):
    (tmp_path / name).write_bytes(content)
    assert words in refused(capsys, "info", tmp_path / name)


def test_a_pipe_as_a_table_waited_for_ever(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe.csv")
    for file in (tmp_path / "pipe.csv", "/dev/zero"):
        assert "is a pipe or a device; expected a file. Save the table first." in refused(capsys, "info", file)


def test_a_name_that_is_too_long_is_a_sentence(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["info", "n" * 300 + ".csv"])
    assert stopped.value.code == 2
    assert "File name too long" in capsys.readouterr().err


def test_a_sentence_listed_a_hundred_thousand_columns(tmp_path, capsys):
    names = [f"column_{i}" for i in range(100_000)]
    assert listing(names).endswith("'column_5' and 99994 more")
    assert listing(names[:3]) == "'column_0', 'column_1', 'column_2'"
    rows = [",".join([str(k)] * len(names)) for k in range(3)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *rows]))
    assert "99994 more" in refused(capsys, "info", tmp_path / "wide.csv")


# --- places -----------------------------------------------------------------------------------------------------------

INTO = {  # commands that end with the place of what they write, or of what they keep
    "finetune": ("finetune", "data.csv", "--out"),
    "pretrain": ("pretrain", "--preset", "paper-tiny", "--steps", 1, "--out"),
    "pretrain cache": ("pretrain", "--preset", "primed-tiny", "--cache-equations", 1, "--out", "new", "--cache"),
    "generate": ("generate", "--equations", 2, "--workers", 1, "--out"),
    "bench": ("bench", "canonical", "--methods", "kramers-moyal", "--quick", "--out"),
    "bench cache": ("bench", "canonical", "--methods", "kramers-moyal", "--quick", "--out", "new", "--cache"),
    "bench tables": ("bench", "canonical", "--methods", "kramers-moyal", "--quick", "--out", "new", "--tables"),
    "bench figures": ("bench", "canonical", "--methods", "kramers-moyal", "--quick", "--out", "new", "--figures"),
    "estimate": ("estimate", "data.csv", "--out"),
    "simulate": ("simulate", "data.csv", "--out"),
}


@pytest.mark.parametrize("verb", INTO)
@pytest.mark.parametrize("place", ["file", "file/inside", "/proc/inside"])
def test_a_place_that_takes_no_files_is_one_sentence_before_any_work(verb, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_bytes(TABLE)
    Path("file").write_text("precious")
    if not place.startswith("/proc") or Path("/proc/self").is_dir():
        err = refused(capsys, *INTO[verb], place)
        assert "is a file" in err or "cannot write" in err or "exists already" in err
    assert Path("file").read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} <= {"data.csv", "file", "new"}


def test_a_place_is_tried_and_left_as_it_was(tmp_path):
    check_place(tmp_path / "a" / "b", "--out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"file' is a file; expected a folder. Choose another place \(--out\)"):
        check_place(tmp_path / "file", "--out")


def test_two_data_sets_in_one_folder_took_each_others_files_away(tmp_path, capsys):
    with only_one(tmp_path / "data"):
        err = refused(capsys, "generate", "--equations", 2, "--workers", 1, "--out", tmp_path / "data")
        assert "another process is at work" in err
