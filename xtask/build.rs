//! Compiles `proto/csi.proto` into descriptor sets, with its comments and without.

use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../proto");
    println!("cargo::rerun-if-changed={}", folder.join("csi.proto").display());
    let out = env::var("OUT_DIR")?;
    for (name, comments) in [("comments.binpb", true), ("plain.binpb", false)] {
        let mut compiler = protox::Compiler::new([&folder])?;
        compiler.include_source_info(comments).include_imports(true).open_file("csi.proto")?;
        // Encoded by protox itself, because prost's own descriptor types drop custom options such as csi_secret.
        fs::write(Path::new(&out).join(name), compiler.encode_file_descriptor_set())?;
    }
    Ok(())
}
