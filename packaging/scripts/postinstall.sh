#!/bin/sh
# The user, the directory and the service. dpkg calls it with "configure" and the version
# before, which is empty at an installation; rpm with 1 at an installation and 2 at an upgrade.
set -e

first=no
case "$1" in
  configure) [ -n "$2" ] || first=yes ;;
  1) first=yes ;;
  abort-*) exit 0 ;;
esac

if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers posthaste.conf
fi
if ! getent passwd posthaste >/dev/null; then
  getent group posthaste >/dev/null || groupadd --system posthaste
  useradd --system --gid posthaste --home-dir /var/spool/posthaste --no-create-home --shell /usr/sbin/nologin posthaste
fi
install -d -o posthaste -g posthaste -m 0711 /var/spool/posthaste
# Secrets are put beside the configuration: only root writes, and the service reads.
chown root:posthaste /etc/posthaste /etc/posthaste/posthaste.toml
chmod 0750 /etc/posthaste
chmod 0640 /etc/posthaste/posthaste.toml

if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  if [ "$first" = yes ]; then
    systemctl enable posthaste.service >/dev/null 2>&1 || true
    # Where another mail server has the port, the service does not start, and says why.
    systemctl start posthaste.service || echo "posthaste has not started: see journalctl -u posthaste" >&2
  elif systemctl is-active --quiet posthaste.service; then
    systemctl restart posthaste.service || echo "posthaste has not restarted: see journalctl -u posthaste" >&2
  fi
fi
