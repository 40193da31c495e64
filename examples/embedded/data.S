// The stream, read-only: train.bin as examples/aot/data.c writes it.
  .section .rodata
  .balign 64
  .globl sequences
sequences:
  .incbin "train.bin"
