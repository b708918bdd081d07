module github.com/posthaste-mta/posthaste/test/interop/peers/gosmtp

go 1.26

require github.com/emersion/go-smtp v0.21.3

require github.com/emersion/go-sasl v0.0.0-20200509203442-7bfe0ed36a21 // indirect
