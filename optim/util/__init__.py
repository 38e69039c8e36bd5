"""What every layer uses: files, progress, compiled kernels, versions."""
