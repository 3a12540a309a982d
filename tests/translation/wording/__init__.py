"""Tests of transduce.translation.wording."""
