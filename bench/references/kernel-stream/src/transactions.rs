//! TCP's set-up with a first echo.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use common::content;

pub(crate) fn serve(args: &crate::Serve) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port))?;
    let mut buffer = vec![0; args.size];
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        if stream.read_exact(&mut buffer).is_ok() {
            let _ = stream.write_all(&buffer);
        }
    }
}

pub(crate) fn call(args: &crate::Call) -> anyhow::Result<()> {
    let data = content(args.size);
    let mut buffer = vec![0; args.size];
    let (mut setups, mut transactions) = (Vec::new(), Vec::new());
    let end = Instant::now() + Duration::try_from_secs_f64(args.seconds)?;
    while Instant::now() < end {
        let begin = Instant::now();
        let mut stream = TcpStream::connect((args.to, args.port))?;
        let set_up = begin.elapsed();
        stream.set_nodelay(true)?;
        stream.write_all(&data)?;
        stream.read_exact(&mut buffer)?;
        setups.push(set_up);
        transactions.push(begin.elapsed());
        // The server closes first, so that this side's ports become free again.
        let _ = stream.read(&mut [0]);
    }
    let report = serde_json::json!({
        "side": "client", "transport": "tcp", "transactions": transactions.len(),
        "setup_us": median_us(&mut setups), "transaction_us": median_us(&mut transactions),
    });
    println!("{report}");
    Ok(())
}

fn median_us(times: &mut [Duration]) -> Option<f64> {
    times.sort_unstable();
    Some(times.get(times.len() / 2)?.as_secs_f64() * 1e6)
}
