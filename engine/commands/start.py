"""The console command `penstock`, from its first moment on ready for signals."""

from engine.stop_on_signals import end_at_once_on_signals


def start() -> None:
    """Entry point: as engine.commands.main.main, whose imports take a tenth of a second."""
    end_at_once_on_signals()
    from engine.commands.main import main

    main()
