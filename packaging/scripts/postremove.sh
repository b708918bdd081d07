#!/bin/sh
# A purge removes the configuration, and mail only if none waits: a queue may be all that
# there is of somebody's mail.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
  rm -rf /etc/posthaste
  if [ -d /var/spool/posthaste ]; then
    echo "the queue stays in /var/spool/posthaste; remove it with rm -r if no mail in it is wanted" >&2
  fi
fi
