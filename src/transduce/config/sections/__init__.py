"""The sections of the settings, each a class; `config.schema` puts them together."""
