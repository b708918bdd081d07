#!/bin/sh
# Stops the service when the package goes for good: dpkg says "remove", rpm 0. Mail that
# waits stays in /var/spool/posthaste.
set -e
case "$1" in
  remove | 0)
    if [ -d /run/systemd/system ]; then
      systemctl disable --now posthaste.service posthaste.socket >/dev/null 2>&1 || true
    fi
    ;;
esac
