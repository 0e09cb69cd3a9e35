"""The project's own benchmark: the workbench against its servers called directly (`python -m bench`)."""
