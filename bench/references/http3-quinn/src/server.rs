//! The server: files of a directory, read once and kept in memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use h3::server::RequestResolver;
use http::{Response, StatusCode};

type Files = HashMap<String, Bytes>;
type Resolver = RequestResolver<h3_quinn::Connection, Bytes>;

pub(crate) async fn serve(listen: SocketAddr, directory: &Path) -> anyhow::Result<()> {
    let files = Arc::new(read(directory)?);
    let mut config = quic_identity::server(crate::ALPN)?;
    config.transport_config(crate::transport());
    let endpoint = crate::endpoint(listen, Some(config))?;
    while let Some(incoming) = endpoint.accept().await {
        let files = files.clone();
        tokio::spawn(async move {
            if let Err(error) = talk(incoming, &files).await {
                eprintln!("{error:#}");
            }
        });
    }
    Ok(())
}

/// Reads the files, with the path of each in a URL. A directory has that of its index.html.
fn read(directory: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![(directory.to_path_buf(), "/".to_owned())];
    while let Some((folder, url)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                folders.push((entry.path(), format!("{url}{name}/")));
                continue;
            }
            let content = Bytes::from(std::fs::read(entry.path())?);
            if name == "index.html" {
                files.insert(url.clone(), content.clone());
            }
            files.insert(format!("{url}{name}"), content);
        }
    }
    Ok(files)
}

async fn talk(incoming: quinn::Incoming, files: &Arc<Files>) -> anyhow::Result<()> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
    while let Some(resolver) = connection.accept().await? {
        let files = files.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(resolver, &files).await {
                eprintln!("{error:#}");
            }
        });
    }
    Ok(())
}

async fn answer(resolver: Resolver, files: &Files) -> anyhow::Result<()> {
    let (request, mut stream) = resolver.resolve_request().await?;
    let Some(content) = files.get(request.uri().path()) else {
        stream.send_response(Response::builder().status(StatusCode::NOT_FOUND).body(())?).await?;
        return Ok(stream.finish().await?);
    };
    let response = Response::builder()
        .header("content-type", "application/octet-stream")
        .header("content-length", content.len())
        .header("last-modified", "Thu, 26 Nov 2026 12:00:00 GMT")
        .body(())?;
    stream.send_response(response).await?;
    stream.send_data(content.clone()).await?;
    Ok(stream.finish().await?)
}
