use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn one_target_loses_its_path() {
    let whole = "OPTIONS http://a/ HTTP/1.1\r\nhost: a\r\n\r\nbody / HTTP/1.1\r\n";
    let bare = "OPTIONS http://a HTTP/1.1\r\nhost: a\r\n\r\nbody / HTTP/1.1\r\n";
    for (written, sent) in
        [(whole, bare), ("GET http://a/b HTTP/1.1\r\n\r\n", "GET http://a/b HTTP/1.1\r\n\r\n")]
    {
        for size in [1, 7, 100] {
            // The pipe takes less than the first line at once.
            let (near, mut far) = tokio::io::duplex(10);
            let mut near = BareTarget::new(near);
            let mut read = String::new();
            let write = async {
                for part in written.as_bytes().chunks(size) {
                    near.write_all(part).await.unwrap();
                }
                near.shutdown().await.unwrap();
            };
            let ((), count) = tokio::join!(write, far.read_to_string(&mut read));
            assert_eq!((count.unwrap(), read.as_str()), (sent.len(), sent), "{size} bytes at once");
        }
    }
}
