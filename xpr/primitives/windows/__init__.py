"""Operations on sliding windows: convolutions, and reductions over windows."""
