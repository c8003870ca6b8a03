"""The demo: real work through the engine, on a server of its own, with things going wrong on purpose.

    work      the application: three job types that do real work with the standard library
    pictures  drawing and shrinking pictures, as PNG files
    stage     the server, the worker processes, the database connections
    view      what the audience sees: a live view on a terminal, lines elsewhere
    press     the acts of the engine: enqueue, work, kill, mend, count
    desk      a second application, whose jobs ask models through the batch lane
    tickets   what its customers write
    batches   the act of the lane: send, lose, find again, bring home
    bill      what the lane has done and cost, as the database and the providers tell it
    play      all acts in order, and the closing table

An application joins by adding acts to `play.ACTS`: each is an async function
that takes the stage and returns the checks by which it wants to be judged.
"""
