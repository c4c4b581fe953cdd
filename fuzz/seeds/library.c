extern void *memcpy(void *, const void *, unsigned long);
extern int MPI_Testx(void *r, int *flag);
void *table[2];
void copy_twice(char *a, char *b, unsigned long n) { memcpy(a, b, n); if (n > 8) memcpy(b + 1, a, n - 1); table[0] = a; }
int MPI_Test(void *r, int *flag, void *s) { if (!r) { *flag = 1; return 0; } if (MPI_Testx(r, flag)) { *flag = 0; return 1; } *flag = 1; return 0; }
void copy_jump(char *a, char *b) { void *(*f)(void *, const void *, unsigned long) = memcpy; f(a, b, 64); }
