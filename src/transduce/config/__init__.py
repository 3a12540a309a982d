"""The settings of a run: documented, frozen, from presets, YAML files and `--set a.b=c`."""
