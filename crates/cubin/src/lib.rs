//! NVIDIA's ELF container: reader and writer with typed sections, EIATTR records, symbols and relocations.
