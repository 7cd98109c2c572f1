module strandline/interop/pion

go 1.19

require github.com/pion/sctp v1.8.35

require (
	github.com/pion/logging v0.2.2 // indirect
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v3 v3.0.7 // indirect
)
