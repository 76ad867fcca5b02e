package hcsadapter

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/winnpm/winnpm/pkg/hns"
	"github.com/winnpm/winnpm/test/hnsfault"
	"github.com/winnpm/winnpm/test/hnstest"
	"github.com/winnpm/winnpm/test/hnstest/onsim"
)

// bindingOf is a binding of a library, as another one would offer it.
func bindingOf(l *simLibrary) Calls {
	return func(export string, a Arguments) (out Outcome, err error) {
		k := kindNetwork
		if strings.Contains(export, string(kindEndpoint)) {
			k = kindEndpoint
		}
		switch verb := strings.TrimSuffix(strings.TrimSuffix(export, "s"), string(k)); verb {
		case "HNSCall":
			out.Output, err = l.hnsCall(a.Texts[0], a.Texts[1], a.Texts[2])
		case "HcnEnumerate":
			out.Output, err = l.enumerate(k, a.Texts[0])
		case "HcnOpen":
			var h handle
			h, err = l.open(k, a.ID)
			out.Handle = uint64(h)
		case "HcnModify":
			err = l.modify(k, handle(a.Handle), a.Texts[0])
		case "HcnClose":
			err = l.close(k, handle(a.Handle))
		default: // HcnQuery…Properties
			out.Output, err = l.query(k, handle(a.Handle), a.Texts[0])
		}
		if f, ok := errors.AsType[*failure](err); ok {
			return Outcome{HResult: f.code, Record: f.Error()}, nil
		}
		return out, err
	}
}

// TestContractOver: the contract suite passes through another binding.
func TestContractOver(t *testing.T) {
	hnstest.Run(t, func(t *testing.T) (hns.Client, hnstest.Fixture) {
		_, s := onSim(t, Options{})
		over := Over(Options{Network: "azure"}, bindingOf(s))
		t.Cleanup(over.Close)
		return over, &onsim.CNI{Sim: s.sim}
	})
}

// TestOverAnswers: what another binding says is classed as what ours says.
func TestOverAnswers(t *testing.T) {
	s := &simLibrary{ctx: t.Context(), sim: hnsfault.New(hnsfault.Options{}), id: "5C1D0D2E-7A53-4D2B-9A60-0F6C9E0F1A11", opened: map[handle]string{}}
	var answer Outcome
	var none error
	binding := bindingOf(s)
	over := Over(Options{Network: "azure"}, func(export string, a Arguments) (Outcome, error) {
		if export == "HcnModifyNetwork" {
			return answer, none
		}
		return binding(export, a)
	})
	defer over.Close()
	set := []hns.SetPolicy{{ID: "azure-npm-1", Name: "n", Type: hns.IPSet}}

	answer = Outcome{HResult: 0x803b0012, Record: "exists"}
	err := over.ModifySets(t.Context(), hns.Add, set)
	require.ErrorIs(t, err, hns.ErrAlreadyExists)
	require.Equal(t, uint32(0x803b0012), hns.CodeOf(err))

	answer = Outcome{Record: `{"Success":false}`}
	require.ErrorIs(t, over.ModifySets(t.Context(), hns.Add, set), hns.ErrUnlisted, "success with an error record decides nothing")

	none = errors.New("hcsshim broke down")
	err = over.ModifySets(t.Context(), hns.Add, set)
	require.True(t, hns.OutcomeUnknown(err), "%v", err)
	require.ErrorContains(t, err, "hcsshim broke down")

	v, err := over.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, Version{15, 1}, v)
}

// TestFoundOver: the network is found through another binding as well.
func TestFoundOver(t *testing.T) {
	_, s := onSim(t, Options{})
	over := Over(Options{Now: time.Now}, bindingOf(s))
	t.Cleanup(over.Close)
	n, err := over.Network(t.Context())
	require.NoError(t, err)
	require.Equal(t, "azure", n.Name)
}
