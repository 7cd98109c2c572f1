//! Messages from other workers of this server.

use std::rc::Rc;

use crate::server::hub::Hub;
use crate::server::socket::{Letter, Mail};

/// Handles messages from other workers, until the task is ended.
pub(in crate::server) async fn serve(mail: Rc<Mail>, hub: Rc<Hub>) {
    loop {
        if let Err(error) = mail.readable().await {
            tracing::error!(%error, "waiting for messages from other workers failed");
            return;
        }
        let mut more = false;
        hub.with(|service, now| {
            more = mail.take(|letter| match letter {
                Letter::Send { from, flow, client, bytes } => {
                    hub.transports.send_for(&mail, from, flow, client, bytes);
                }
                Letter::Failed { client } => service.send_failed(now, client),
                Letter::Unsent { flow, bytes } => service.response_failed(now, flow, bytes),
                Letter::Misdirected { first, flow, bytes } => {
                    service.handle_misdirected(now, flow, first, bytes)
                }
                Letter::Close { flow } => {
                    hub.transports.close(&flow);
                }
                Letter::Closed { connection } => service.worker_connection_closed(connection),
            });
        });
        hub.transports.connections.flush();
        mail.flush();
        if more {
            tokio::task::yield_now().await;
        }
    }
}
