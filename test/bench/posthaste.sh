# Posthaste, as a peer of the harness. POSTHASTE names the program.
# Variants: defaults (stock limits), tuned, and for limit421 the feedback styles
# level, and fb1N, fbsqrtN, fb1, by Postfix's rule or, with suffix r, by the
# README's; for rtt streamN, with N messages in flight on a connection.
# With BENCH_CERT and BENCH_KEY, the files of a certificate, tuned uses TLS on both sides;
# that needs a sink that offers STARTTLS.
POSTHASTE=$(realpath "${POSTHASTE:?names the program}") || return 1

posthaste_conf=/etc/posthaste.toml

peer_version() { "$POSTHASTE" version; }

peer_setup() {
  mkdir -p "$W/spool/posthaste"
  {
    posthaste_table
    posthaste_transport
    [[ -z ${BENCH_CERT:-} ]] || printf 'tls_security_level = "encrypt"\n[[certificate]]\ncert = "%s"\nkey = "%s"\n' "$BENCH_CERT" "$BENCH_KEY"
    echo '[routes]'
    for n in $(seq $domains); do echo "\"d$n.test\" = \"smtp:[$(dest "$n")]:$sinkport\""; done
  } >"$W$posthaste_conf"
  "$POSTHASTE" config check "$W$posthaste_conf" >/dev/null
}

# posthaste_table prints the parameters at the top of the file. A recipient
# limit is lifted for every variant, because the scenarios need it.
posthaste_table() {
  cat <<END
myhostname = "bench.test"
queue_directory = "/var/spool/posthaste"
listen = ["$listen:$port"]
smtpd_recipient_limit = 50000
END
  [ "$variant" != defaults ] || return 0
  cat <<END
default_process_limit = 150
in_flow_delay = 0
qmgr_message_active_limit = 50000
END
  if [ "$scenario" = limit421 ]; then # first attempts only are counted
    printf '%s\n' 'minimal_backoff_time = "3000s"' 'maximal_backoff_time = "4000s"'
  fi
}

# posthaste_transport prints the table of the transport that everything uses.
posthaste_transport() {
  [ "$variant" != defaults ] || return 0
  local initial=$CONC feedback= rule=source
  [ "$scenario" != limit421 ] || initial=5
  case $variant in
    fb1N*) feedback=1/concurrency ;;
    fbsqrtN*) feedback=1/sqrt_concurrency ;;
    fb1*) feedback=1 ;;
    level) feedback=level ;;
  esac
  case $variant in fb*r) rule=readme ;; esac
  cat <<END
[transport.smtp]
initial_destination_concurrency = $initial
destination_concurrency_limit = $CONC
destination_recipient_limit = $rcpt_limit
END
  case $variant in stream*) printf 'pipelining = "stream"\npipelining_in_flight = %d\n' "${variant#stream}" ;; esac
  [ -n "$feedback" ] || return 0
  cat <<END
destination_concurrency_positive_feedback = "$feedback"
destination_concurrency_negative_feedback = "$feedback"
destination_concurrency_feedback_rule = "$rule"
END
}

peer_start() { "$POSTHASTE" serve --config $posthaste_conf >>/var/log/posthaste.log 2>&1 & }
peer_flush() { "$POSTHASTE" queue flush --config $posthaste_conf; }

# First attempts by outcome.
peer_deferrals() {
  local log=$W/log/posthaste.log sent deferred
  sent=$(grep -cE 'msg=delivery .* status=sent .* attempt=1( |$)' "$log")
  deferred=$(grep -cE 'msg=delivery .* status=deferred .* attempt=1( |$)' "$log")
  extra+=(-set first_sent="$sent" -set first_deferred="$deferred"
    -set deferred_pct="$(awk "BEGIN{print $sent+$deferred ? 100*$deferred/($sent+$deferred) : \"-\"}")")
}

[[ -z ${BENCH_CERT:-} ]] || loadgen_opts+=(-starttls)
