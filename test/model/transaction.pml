/*
 * A model of dataplane.ApplyDataplane for Spin: two sets, two endpoints, the
 * transaction, the reconciler, trouble at every HNS call, crashes everywhere.
 * README.md says what it leaves out; hack/model.sh runs it and its mutants.
 *
 * A set of sets is a mask: 1 is the first set, 2 the second. Of an ACL list only
 * the sets that it names matter. trouble is whatever may go wrong, be late or
 * change: at any time, or BUDGET times, and then everything has to converge.
 */
#ifdef BUDGET
byte budget = BUDGET;
#define trouble(c) (c) && budget > 0 -> budget--
ltl converges { <>[] (hacl[0] == desired[0] && hacl[1] == desired[1] && hset == (desired[0] | desired[1])) }
#else
#define trouble(c) (c)
#endif

/* ----- what outlives a crash; the endpoints are 0 and 1 ----- */
byte hset;    /* HNS: the sets there */
byte hacl[2]; /* HNS: the sets that our ACLs on the endpoint name */
byte desired[2]; /* API server: the sets that the endpoint's desired ACLs name */

/* ----- the memory of the process ----- */
bool fresh;      /* d.fresh: our sets were not read yet */
byte present;    /* set.present: in HNS as far as known */
byte unsure;     /* set.unknown: the last write has an unknown outcome */
mtype = { unread, known, unknown } /* rulesState; the first reads are of both endpoints */
mtype rules[2]; /* ep.state.rules */
byte actual[2]; /* ep.actual; 0 while that is not known */
byte attempts[2]; /* ep.attempts: the sets of every list that may be there then */
bool killed;     /* the process was killed, the next one starts */

byte looks; /* of the reconciler: 1 a look is due; without the apply lock 2 the sets were read */
#ifdef NO_LOCK
byte lset;  /* the sets that it read */
#endif

/* ----- references: ipsets.RefKind and what follows from them ----- */
#define listed (rules[0] != unread) /* d.endpoints has them */
#define possible(e) (rules[e] == known -> actual[e] : attempts[e])
/* updateState: what differs, or may, waits */
#define settled(e) (rules[e] == known && actual[e] == desired[e])
#define pending(e) (rules[e] != unread && !settled(e))
#define promise(e) (pending(e) -> possible(e) | desired[e] : 0)
#ifdef NO_PINS
#define pin(e) 0
#else
#define pin(e) promise(e)
#endif
#define needed (listed -> desired[0] | desired[1] : 0)
#define firm   (needed | actual[0] | actual[1])
#define spare  (present & ~unsure & ~(firm | pin(0) | pin(1)))

/* ----- the promises -----
 * I1, what HNS insists on: 1 no Add of a set that is there, 2 no ACL names a
 * missing set, 3 no Remove of a missing set, 4 none of a set in use. I2: 5 no
 * deletion of what a pending update may need, 6 nor of what is desired.
 * With ONLY=n just n is checked. Place n must be reached, or all this proves
 * nothing: with REACH=n the model must fail there. */
#define check(n, c) assert((ONLY && ONLY != n) || (c))
#define reach(n, c) if :: REACH == n && (c) -> assert(!REACH) :: else fi

/* ----- HNS calls: done; done but the reply is lost; refused ----- */
byte req; /* the sets of the request */
bool ok;  /* what the caller gets to know */
#define outcome(effect) if :: effect; ok = true :: trouble(true); effect :: trouble(true) fi

inline hnsRemove(mask) {
	check(3, (mask & ~hset) == 0);
	check(4, (mask & (hacl[0] | hacl[1])) == 0);
	check(5, (mask & (promise(0) | promise(1))) == 0);
	check(6, (mask & (desired[0] | desired[1])) == 0);
	outcome(hset = hset & ~mask)
}

inline recordSets() { /* recordSets: what was missing is there, or the reverse */
	if :: ok -> present = present ^ req :: else -> unsure = unsure | req fi;
	req = 0; ok = false
}

/* ----- stage ----- */
#define change(e, s) if :: true :: trouble(true); desired[e] = desired[e] ^ s fi

inline stage() { change(0, 1); change(0, 2); change(1, 1) }

/* ----- read, in one atomic with stage: reads change nothing ----- */
inline readEndpoint(e) { actual[e] = hacl[e]; rules[e] = known; attempts[e] = 0 }

inline observe() { /* it holds the apply lock */
	reach(1, !pending(0) && hacl[0] != actual[0]);
	readEndpoint(0); readEndpoint(1);
	present = hset; unsure = 0; looks = 0
}

inline readUnknown(e) { if :: rules[e] == unknown -> if :: readEndpoint(e) :: trouble(true) fi :: else fi }

inline read() {
	if :: fresh || unsure -> if :: present = hset; unsure = 0; fresh = false :: trouble(true) fi :: else fi;
	if /* all endpoints: after a start, and whenever something calls for it */
	:: readEndpoint(0); readEndpoint(1)
	:: trouble(!listed)
	:: listed
	fi;
	readUnknown(0); readUnknown(1)
}

/* ----- planSets: an unknown outcome stops all writing of sets ----- */
#ifdef NO_SETS_READ
#define planSets (unsure -> 0 : needed & ~present)
#else
#define planSets (unsure || fresh -> 0 : needed & ~present)
#endif

/* ----- writeSets ----- */
inline writeSets() {
	if
	:: atomic { planSets ->
		req = planSets;
		check(1, (req & hset) == 0);
		outcome(hset = hset | req) };
	   atomic { recordSets() }
	:: else
	fi
}

/* ----- writeEndpoints ----- */
#define additions(e) ((actual[e] & ~desired[e]) == 0)
#define newNames(e) (desired[e] & ~actual[e])
#ifdef NO_READY
#define ready(e) true
#else
#define ready(e) ((newNames(e) & (~present | unsure)) == 0) /* ready */
#endif
#define due(e) (pending(e) && rules[e] == known && ready(e))

inline writeEndpoint(e) {
	if /* an Update takes another look, and is planned anew from what it finds */
	:: atomic { due(e) && !additions(e) && hacl[e] != actual[e] -> readEndpoint(e) }
	:: else
	fi;
	if
	:: atomic { due(e) ->
		req = (additions(e) -> newNames(e) : desired[e]);
		check(2, (req & ~hset) == 0);
		outcome(hacl[e] = (additions(e) -> hacl[e] | req : req)) };
	   atomic {
#ifdef NO_REREAD
		ok = true;
#endif
		if
		:: ok -> actual[e] = desired[e]
		:: else -> attempts[e] = actual[e] | desired[e]; actual[e] = 0; rules[e] = unknown /* brokeOff */
		fi;
		req = 0; ok = false }
	:: atomic { trouble(due(e)) } /* it backs off */
	:: atomic { !due(e) -> reach(2, pending(e) && rules[e] == known && (newNames(e) & unsure)) }
	fi
}

inline writeEndpoints() { writeEndpoint(0); writeEndpoint(1) }

/* ----- removeSets ----- */
#ifdef NO_LISTING
#define deletable spare
#else
#define deletable (listed -> spare : 0)
#endif

inline removeSets() {
	if
	:: atomic { deletable ->
		reach(3, rules[0] == unknown); /* while the outcome of an update is unknown */
		req = deletable;
		if :: true :: trouble(true); req = req & 1 :: trouble(true); req = req & 2 fi; /* grace period */
		hnsRemove(req) };
	   atomic { recordSets() }
	:: atomic { else -> reach(4, present & ~unsure & ~firm & (pin(0) | pin(1))) }
	:: atomic { trouble(deletable) }
	fi
}

/* ----- the processes ----- */
proctype Worker() { /* whoever holds the apply lock */
start:
	{	do
#ifdef NO_LOCK
		:: atomic { stage(); read() };
#else
		:: if :: atomic { looks -> observe() } :: else fi;
		   atomic { stage(); read() };
#endif
		   writeSets();
		   writeEndpoints();
		   removeSets()
		od
	} unless { atomic { killed -> killed = false; goto start } }
}

proctype Reconciler() {
	byte idle; /* NO_DOOR: it deletes by itself what it saw idle */
	do
	:: atomic { looks == 0 && listed && !fresh -> looks = 1 }
#ifdef NO_LOCK
	:: atomic { looks == 1 -> lset = hset; looks = 2 }
	:: atomic { looks == 2 -> present = lset; unsure = 0; looks = 0 }
#endif
#ifdef NO_DOOR
	:: atomic { !idle && listed -> idle = spare }
	:: atomic { idle -> hnsRemove(idle); ok = false; present = present & ~idle; idle = 0 }
#endif
	od
}

inline forget() {
	fresh = true; present = 0; unsure = 0;
	rules[0] = unread; actual[0] = 0; attempts[0] = 0;
	rules[1] = unread; actual[1] = 0; attempts[1] = 0;
	looks = 0; req = 0; ok = false
}

proctype Others() { /* somebody kills the process, or takes our ACLs away */
	do
	:: atomic { trouble(!killed);
		reach(5, pending(0) && rules[0] == known && (desired[0] & present & ~actual[0]));
		forget(); killed = true }
	:: atomic { trouble(hacl[0] != 0); hacl[0] = 0 }
	:: atomic { trouble(hacl[1] != 0); hacl[1] = 0 }
	od
}

init { /* a process starts on a node as any history left it */
	byte any;
	atomic {
		select(hset : 0 .. 3);
		select(any : 0 .. 3); hacl[0] = hset & any;
		select(any : 0 .. 3); desired[0] = any;
		select(any : 0 .. 1); hacl[1] = hset & any;
		select(any : 0 .. 1); desired[1] = any; any = 0;
		forget();
#ifndef NO_RECONCILER
		run Reconciler();
#endif
		run Worker(); run Others()
	}
}
