//! Compiles the .proto files with protox, so that no protoc is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["ringbreaker/v1/fleet.proto"], ["."])?;
    println!("cargo:rerun-if-changed=ringbreaker");
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
