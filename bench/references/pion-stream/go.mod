module strandline/bench/pion-stream

go 1.24.0

require (
	github.com/pion/logging v0.2.4
	github.com/pion/sctp v1.12.0
)

require (
	github.com/pion/randutil v0.1.0 // indirect
	github.com/pion/transport/v5 v5.1.1 // indirect
)

// Only its package `deadline` is used, which is the same in both.
replace github.com/pion/transport/v5 => github.com/pion/transport/v5 v5.0.0
