use std::time::Duration;

use tokio::task::LocalSet;

use super::*;
use crate::service::Settings;

/// A socket that something else has shut down listens again.
#[tokio::test]
async fn failed_listeners_listen_again() {
    let listener = listen("127.0.0.1:0".parse().unwrap(), &ConnectionLimits::default()).unwrap();
    let socket = listener.get_ref().try_clone().unwrap();
    let address = socket.local_addr().unwrap();
    let (hub, _) = Hub::alone(Settings::default());
    let tasks = LocalSet::new();
    tasks.spawn_local(serve(listener, hub, Set::new().unwrap(), Protocol::Tcp));
    tasks
        .run_until(async {
            drop(TcpStream::connect(address).await.unwrap());
            rustix::net::shutdown(&socket, rustix::net::Shutdown::Both).unwrap();
            let connecting = async { while TcpStream::connect(address).await.is_err() {} };
            tokio::time::timeout(Duration::from_secs(60), connecting).await.unwrap();
        })
        .await;
}
