"""The node agent: runs the pods bound to its nodes as local processes and reports on them as a kubelet does."""
