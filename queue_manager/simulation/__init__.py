"""A whole cluster in one process under virtual time, on which the tests of the whole system run.

Modules:

    virtual_time  an event loop and a clock whose time moves from timer to timer
    world         store, API server and controllers
    kubelet       pods that follow a script
"""
