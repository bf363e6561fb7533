int train();

int main() { return train(); }
