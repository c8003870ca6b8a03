"""The demo: real work through the engine, on a server of its own, with things going wrong on purpose.

    work      the application: three job types that do real work with the standard library
    pictures  drawing and shrinking pictures, as PNG files
    stage     the server, the worker processes, the database connections
    view      what the audience sees: a live view on a terminal, lines elsewhere
    press     the acts of the engine: enqueue, work, kill, mend, count
    play      all acts in order, and the closing table

An application joins by adding acts to `play.ACTS`: each is an async function
that takes the stage and returns the checks by which it wants to be judged.
"""
