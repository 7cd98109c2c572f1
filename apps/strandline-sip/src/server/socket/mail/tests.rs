#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

const CLIENT: ClientId = ClientId { slot: 7, nonce: 0x0102_0304_0506_0708 };

fn flows() -> [Flow; 2] {
    let v4 = Flow { connection: 65, ..Flow::to(Protocol::Tcp, "192.0.2.1:5060".parse().unwrap()) };
    [v4, Flow::to(Protocol::Udp, "[2001:db8::1]:5061".parse().unwrap())]
}

#[test]
fn letters_arrive_as_they_were_written() {
    let bytes = b"SIP/2.0 200 OK\r\n\r\n";
    let all: Vec<Letter<'_>> = flows()
        .into_iter()
        .flat_map(|flow| {
            [
                Letter::Send { from: 3, flow, client: Some(CLIENT), bytes },
                Letter::Send { from: 3, flow, client: None, bytes },
                Letter::Failed { client: CLIENT },
                Letter::Unsent { flow, bytes },
                Letter::Misdirected { first: 2, flow, bytes },
                Letter::Close { flow },
                Letter::Closed { connection: 99 },
            ]
        })
        .collect();
    let mut batch = Vec::new();
    all.iter().for_each(|letter| letter.write(&mut batch));
    assert_eq!(letters(&batch).collect::<Vec<_>>(), all);
    // A truncated batch yields its complete letters.
    for len in 0..batch.len() {
        let whole = letters(&batch[..len]).count();
        assert!(whole < all.len());
        assert_eq!(letters(&batch[..len]).collect::<Vec<_>>(), all[..whole]);
    }
}

proptest! {
    #[test]
    fn anything_may_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        letters(&bytes).for_each(|letter| {
            let mut again = Vec::new();
            letter.write(&mut again);
        });
    }
}
