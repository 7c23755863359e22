//! A whole agent, as `ringbreaker agent` runs it.

use std::path::Path;

use ringbreaker_agent::service::{self, AgentOptions};
use tokio_util::sync::CancellationToken;

/// Serves until it is to leave; 1: it did not leave in good order.
pub(crate) fn serve(controller: &str, state: &Path) -> i32 {
    let options = AgentOptions {
        controller: controller.to_owned(),
        state: state.to_owned(),
        lane: Some(0),
        nccl: Vec::new(),
        isolation: None,
    };
    let served = tokio::runtime::Runtime::new()
        .map(|runtime| runtime.block_on(service::run(options, CancellationToken::new())));
    match served {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            eprintln!("agent: {error}");
            1
        }
        Err(error) => {
            eprintln!("agent: no runtime: {error}");
            1
        }
    }
}
