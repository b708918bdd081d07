# Functions for scripts that need programs of Debian packages without installing them.
# The caller sets cache, the directory where packages are kept, and mounts cache/*/root/usr
# over /usr in a namespace of its own.

# lack NAME LOG notes in the variable without that a program cannot be had.
without=
lack() {
  tail -n 3 "$2" >&2
  if [[ -n ${REQUIRE:-} ]]; then
    echo "$0: $1 cannot be had" >&2
    exit 1
  fi
  echo "skipped: $1 cannot be had, and what needs it is left out"
  without+=,$1
}
apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o APT::Sandbox::User=root
  -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 -o DPkg::Lock::Timeout=60)
updated=
# update gets the lists of packages, once, whether that succeeds or not.
update() {
  [[ -z $updated ]] || return 1
  updated=1
  timeout 120 "${apt[@]}" update
}
# fetch PROGRAM PACKAGE NAME unpacks a package and what it needs besides what is
# installed. Packages that are installed already leave nothing to unpack.
fetch() {
  local dir=$cache/$2
  if command -v "$1" >/dev/null || [[ -e $dir/complete ]]; then
    return
  fi
  rm -rf "$dir"
  mkdir -p "$dir/debs/partial" "$dir/root/usr"
  chmod 755 "$cache" "$dir" "$dir/debs"
  local get=(timeout 300 "${apt[@]}" install --no-install-recommends --download-only -o "Dir::Cache::archives=$dir/debs" "$2")
  if ! { "${get[@]}" || { update && "${get[@]}"; }; } >"$dir/log" 2>&1; then
    lack "$3" "$dir/log"
    rm -rf "$dir/root"
    return
  fi
  for deb in "$dir"/debs/*.deb; do dpkg -x "$deb" "$dir/root"; done
  if [[ -d $dir/root/lib ]]; then # on systems where /lib is /usr/lib
    cp -a "$dir/root/lib" "$dir/root/usr/"
  fi
  touch "$dir/complete"
}
