# The command as a Nix package: `nix build`, `nix run . -- -arch=sm_90 k.ptx`.
#
# Nix 2.8 evaluated its outputs with the `lib` of nixpkgs and rust-overlay's manifests, which have this version of Rust; it
# has not been built, as nixpkgs was out of reach. The workflow `release` builds it before anything is published. There is
# no lock file for the same reason; the first `nix build` writes one.
{
  description = "Sassafras, an open PTX compiler with ptxas's options";

  inputs = {
    nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";
    # The compiler asks for a newer Rust than most channels have.
    rust-overlay = {
      url = "github:oxalica/rust-overlay";
      inputs.nixpkgs.follows = "nixpkgs";
    };
  };

  outputs = { self, nixpkgs, rust-overlay }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" ];
      forAll = nixpkgs.lib.genAttrs systems;
    in {
      packages = forAll (system:
        let
          pkgs = import nixpkgs { inherit system; overlays = [ rust-overlay.overlays.default ]; };
          rust = pkgs.rust-bin.stable."1.95.0".minimal;
          platform = pkgs.makeRustPlatform { cargo = rust; rustc = rust; };
        in {
          default = platform.buildRustPackage {
            pname = "sassafras";
            version = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package.version;
            src = self;
            cargoLock.lockFile = ./Cargo.lock;
            cargoBuildFlags = [ "--package" "sassafras-cli" ];
            # The tests need NVIDIA's tools.
            doCheck = false;
            nativeBuildInputs = [ pkgs.installShellFiles ];
            postInstall = ''
              mkdir -p $out/lib/sassafras/bin
              ln -s ../../../bin/sassafras $out/lib/sassafras/bin/ptxas
              for shell in bash zsh fish; do $out/bin/sassafras completions $shell > sassafras.$shell; done
              installShellCompletion --cmd sassafras --bash sassafras.bash --zsh sassafras.zsh --fish sassafras.fish
              $out/bin/sassafras man > sassafras.1
              installManPage sassafras.1
            '';
            meta = {
              description = "Open PTX compiler with ptxas's options";
              license = with pkgs.lib.licenses; [ mit asl20 ];
              mainProgram = "sassafras";
            };
          };
        });
    };
}
