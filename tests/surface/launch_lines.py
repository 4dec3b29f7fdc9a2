"""Good calls of what is public in railcore.engines.launch_lines."""

from railcore.engines.launch_lines import megatron_run, read_launch_line

megatron_run("")
read_launch_line("", None, None)
