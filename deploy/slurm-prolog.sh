#!/bin/sh
# Slurm: Prolog=/etc/slurm/dmscope-prolog.sh in slurm.conf starts the agent of a node with its first job; it stays.
# The shell that starts it is waited for: what is still in the prolog's process group at its end is killed.
setsid sh -c 'flock --nonblock /run/dmscope-agent.lock /usr/local/bin/dmscope agent --bus nats://service:4222 \
    --bus-credentials /etc/dmscope/agent-credentials >>/var/log/dmscope-agent.log 2>&1 </dev/null &'
