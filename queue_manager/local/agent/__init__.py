"""The node agent: runs the pods bound to the local nodes as processes of this machine and reports their status."""
