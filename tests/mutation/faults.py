"""Faults in the modules that guard data, and the tests that must find each of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """A change of the source that breaks a promise."""

    module: str  # below src/transduce
    before: str  # found once in the module
    after: str
    found_by: str  # a test, as pytest names it, or a file of tests


FAULTS = {
    "a file is copied over the old one": Fault(
        "files/atomic.py",
        "    written.replace(path)\n",
        '    __import__("shutil").copyfile(written, path)\n    written.unlink()\n',
        "tests/files/test_atomic.py",
    ),
    "a temporary file is opened through a link": Fault(
        "files/atomic.py",
        "os.O_RDWR | os.O_CREAT | os.O_EXCL",
        "os.O_RDWR | os.O_CREAT",
        "tests/files/test_atomic.py",
    ),
    "what is being written is taken for a leftover": Fault(
        "files/atomic.py",
        "            fcntl.flock(descriptor, fcntl.LOCK_EX)\n",
        "            pass\n",
        "tests/files/test_atomic.py",
    ),
    "a partial file is opened through a link": Fault(
        "files/locks.py",
        "os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK",
        "os.O_CREAT | os.O_NONBLOCK",
        "tests/system/test_translate_safely.py",
    ),
    "the second writer is let in": Fault(
        "files/atomic.py",
        "if any(map(is_locked, [partial_name(path), *_temporary_files(path)])):",
        "if False:",
        "tests/system/test_translate_safely.py",
    ),
    "changed text is not compared": Fault(
        "files/unchanged.py",
        "if self._files.setdefault(_key(path), read).digest != read.digest:",
        "if self._files.setdefault(_key(path), read) is None:",
        "tests/data/test_text_changes.py",
    ),
    "a digest is cached by size and name": Fault(
        "files/unchanged.py",
        "return state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino",
        "return state.st_size, 0, 0, 0",
        "tests/files/test_digests.py",
    ),
    "lines are kept that were made from something else": Fault(
        "files/resumable.py",
        "if name in known and now[name] != known[name]",
        "if False",
        "tests/system/test_translate_survives.py::"
        "test_another_command_is_refused_and_leaves_what_is_done",
    ),
    "a changed store is opened": Fault(
        "data/store.py",
        "if _fingerprint(folder / name) != expected:",
        "if False:",
        "tests/data/test_store.py::test_a_damaged_store_is_refused_when_it_is_opened",
    ),
    "a changed manifest is opened": Fault(
        "data/store.py",
        "if checksum != str(zlib.crc32(text.encode())):",
        "if False:",
        "tests/data/test_store.py::test_a_damaged_store_is_refused_when_it_is_opened",
    ),
    "a vocabulary that changes meanwhile makes a store": Fault(
        "data/store.py",
        'if file_digest(tokenizer) != identity["tokenizer"]:',
        "if False:",
        "tests/data/test_text_changes.py",
    ),
    "the checksum of weights is not compared": Fault(
        "models/safetensors_file.py",
        'if f"{crc:08x}".encode() != found[2]:',
        "if False:",
        "tests/system/test_damaged_checkpoints.py::"
        "test_if_no_checkpoint_is_sound_nothing_is_changed",
    ),
    "the checksum of a state is not compared": Fault(
        "files/checksums.py",
        "if record[RECORD_CHECKSUM] != _record_checksum(rest):",
        "if False:",
        "tests/system/test_damaged_checkpoints.py::"
        "test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one_to_the_same_bits"
        "[state.json-change_progress-its checksum differs]",
    ),
    "the checksum of a provenance is not compared": Fault(
        "models/run_records.py",
        "    check_record(tree, path, edited)\n",
        "    assert edited\n",
        "tests/system/test_damaged_runs.py::"
        "test_whole_runs_are_not_damaged_and_a_changed_value_is_told",
    ),
    "a changed number of a journal is drawn": Fault(
        "training/run/journal.py",
        '                check_record(found, path, "")\n',
        "                pass\n",
        "tests/training/test_journal.py::test_a_changed_byte_is_told_or_changes_nothing",
    ),
    "a download replaces a user's file": Fault(
        "data/public/fetch.py",
        "if checksum(path, name=path.name, report=report) not in ours:",
        "if not ours:",
        "tests/data/test_fetch.py::test_a_file_of_a_user_is_never_replaced",
    ),
    "a NaN in a checkpoint is resumed from": Fault(
        "training/run/checkpoint.py",
        "        if not bool(tensor.isfinite().all()):\n",
        "        if False:\n",
        "tests/system/test_damaged_checkpoints.py::"
        "test_if_no_checkpoint_is_sound_nothing_is_changed",
    ),
    "one checkpoint can be resumed": Fault(
        "training/run/checkpoint.py",
        "RESUMABLE = 2",
        "RESUMABLE = 1",
        "tests/training/test_checkpoint.py::test_kept_are_the_last_the_best_and_the_newest",
    ),
    "the best checkpoint is removed": Fault(
        "training/run/checkpoint.py",
        "*everything[-RESUMABLE:], *last, *best]}",
        "*everything[-RESUMABLE:], *last]}",
        "tests/training/test_checkpoint.py::test_kept_are_the_last_the_best_and_the_newest",
    ),
    "a checkpoint is written after a rollback": Fault(
        "training/session.py",
        "return is_finite and self._has_new_weights and self.progress.skipped_in_a_row == 0",
        "return self.progress.skipped_in_a_row == 0",
        "tests/system/test_diverging_runs.py::"
        "test_sound_checkpoints_outlive_steps_that_are_all_skipped",
    ),
    "all parts of a step draw the same dropout": Fault(
        "training/step/train_step.py",
        "part = index * processes.world + processes.rank",
        "part = 0",
        "tests/training/test_train_step.py::test_every_part_of_a_step_draws_another_dropout",
    ),
    "requests with a body are unlimited": Fault(
        "serving/guard.py",
        "if self._with_body > self._limits.max_requests:",
        "if False:",
        "tests/serving/test_attacks.py::test_bodies_in_flight_are_limited",
    ),
    "bytes in flight are unlimited": Fault(
        "serving/guard.py",
        "if self._bytes + len(piece) > self._limits.max_bytes_in_flight:",
        "if False:",
        "tests/serving/test_sites.py::test_a_named_site_may_read_refusals_too",
    ),
    "a long body is read to its end": Fault(
        "serving/guard.py",
        "if len(body) + len(piece) > most:",
        "if False:",
        "tests/serving/test_guard.py::"
        "test_a_body_over_the_limit_is_refused_with_and_without_its_length",
    ),
}

SURVIVORS = {
    "content is not on the disk when a file gets its name": (
        Fault(
            "files/atomic.py",
            "    sync(written)\n    written.replace(path)\n    sync(path.parent)\n",
            "    written.replace(path)\n",
            "tests/files/test_atomic.py",
        ),
        "it shows only when the machine loses power: a killed process loses nothing of it",
    ),
    "a file that has just been written is digested once": (
        Fault(
            "files/digests.py",
            "if read.stamp is None or",
            "if False and",
            "tests/data/test_text_changes.py",
        ),
        "the digest is compared again when the text is read, so nothing wrong can be cached; the "
        "rule is for text that changes between two commands within one tick of the clock",
    ),
}
"""Faults that these tests do not find, and why they need not."""
