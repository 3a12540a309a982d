"""What a run is: documented, frozen settings; presets; one YAML file plus `--set a.b=c`."""
