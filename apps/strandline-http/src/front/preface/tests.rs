use tokio::io::AsyncWriteExt;

use super::*;

#[tokio::test]
async fn connections_are_told_apart_by_their_preface() {
    let whole = [PREFACE, b"rest"].concat();
    let cases: [(&[u8], bool); 4] =
        [(&whole, true), (b"GET / HTTP/1.1\r\n\r\n", false), (b"PRI * HTTP/1.1\r\n", false), (b"PR", false)];
    for (sent, wanted) in cases {
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(sent).await.unwrap();
        drop(client);
        let (mut server, is_http2) = Prefixed::read(server).await.unwrap();
        let mut read = Vec::new();
        server.read_to_end(&mut read).await.unwrap();
        assert_eq!((read.as_slice(), is_http2), (sent, wanted));
    }
}
