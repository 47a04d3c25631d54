/*
 * What the models share: locks, and sets of blocks as masks.
 *
 * A magazine is one block here: what matters is who has it. Reading a list and
 * writing it are two steps, so that a lock that is missing shows. A block goes
 * into a place by put(), which asserts that it is nowhere else.
 *
 * At each step that models a function, a comment says which, and in what file;
 * tests/model.sh looks whether there is one. A model is
 * right with BUG 0 and must be found wrong with each other BUG it names.
 */
#ifndef BUG
#define BUG 0
#endif

#define BLOCKS 3
#define ALL 7
#define NONE 9
#define BIT(b) (1 << (b))

/* hak_lock() in lib/lock.h, hak_unlock() in lib/lock.h */
inline lock(l)
{
	atomic { l == 0 -> l = 1 }
}

inline unlock(l)
{
	d_step { assert(l == 1); l = 0 }
}

/* The lowest block of a set, or NONE. */
inline lowest(set, b)
{
	d_step {
		if
		:: (set) & 1 -> b = 0
		:: !((set) & 1) && ((set) & 2) -> b = 1
		:: !((set) & 3) && ((set) & 4) -> b = 2
		:: !((set) & 7) -> b = NONE
		fi
	}
}

/* Into a place: it must have been in none. */
inline put(set, b)
{
	d_step {
		assert(!(ANYWHERE & BIT(b)));
		set = set | BIT(b)
	}
}

/* Out of a place, after lowest() found it there; without the lock it may be
 * gone by now, which put() will see. */
inline out(set, b)
{
	d_step { set = set & ~BIT(b) }
}
