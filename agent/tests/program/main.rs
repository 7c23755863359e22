//! The program that the tests of the agent start: `ringbreaker`'s hidden subcommands, and players of
//! a rank and of an agent that only wait to be harmed.

mod agent;
mod leaver;
mod rank;
mod serve;

use std::{env, path::Path, process::exit};

use ringbreaker_agent::{guard, inject::memory, node, sys::userns};

/// For parts that a fault may hold up for ever: nobody waits for them.
fn end_with_parent() {
    let tied = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    if tied.is_err() || nix::unistd::getppid().as_raw() == 1 {
        exit(1);
    }
}

fn main() {
    let args: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let code = match words.as_slice() {
        ["guard", "--journal", file] => guard::main(Path::new(file)),
        ["enter-user-namespace"] => {
            let entered = userns::enter();
            println!("{:?} as {}: {:?}", entered.isolation, nix::unistd::geteuid(), entered.reason);
            println!("{:?}", node::isolation());
            0
        }
        ["press-memory"] => memory::press(),
        ["press-page-cache"] => memory::press_page_cache(),
        ["hold-gpu-memory"] => memory::hold_gpu(),
        ["probe-gpu", nccl @ ..] => {
            let nccl: Vec<_> = nccl.iter().map(|path| path.into()).collect();
            ringbreaker_agent::gpu::probe_main(&nccl)
        }
        ["leave-under-watch", nccl] => leaver::play(Path::new(nccl)),
        ["rank", "--spec", file] => ringbreaker_agent::rank::main(Path::new(file)),
        ["open", file] => {
            end_with_parent();
            i32::from(std::fs::File::create(file).is_err())
        }
        ["write", file] => {
            end_with_parent();
            let written = std::fs::OpenOptions::new()
                .append(true)
                .open(file)
                .and_then(|mut file| std::io::Write::write_all(&mut file, &[b'x'; 100_000]));
            i32::from(written.is_err())
        }
        ["tell-clock"] => {
            println!("{}", ringbreaker_agent::sys::clock::now().0);
            0
        }
        ["rank", hold] => rank::play(hold, None),
        ["rank", hold, send_to] => rank::play(hold, Some(send_to)),
        ["serve", controller, state] => serve::serve(controller, Path::new(state)),
        ["agent", directory, plan] => agent::play(Path::new(directory), plan),
        other => {
            eprintln!("no such part: {other:?}");
            2
        }
    };
    exit(code);
}
